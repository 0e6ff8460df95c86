-- Finds a room for somebody who looks for seats: the fullest that has enough. They count as taken until the room is noted
-- again. Where there is none, it is a new room, which whoever comes next finds as well.
--
-- KEYS[1..5] of the index   KEYS[6] Lobby:Match:<key>, the room that an earlier sending of the same request has found
-- ARGV[1] how many seats            ARGV[2] id of the new room     ARGV[3] its labels
-- ARGV[4] its capacity              ARGV[5] its settings, as JSON without blanks
-- ARGV[6] ms to keep KEYS[6]; 0 for a request that is never sent again
-- ARGV[7] how many of the further arguments are rooms that will not do; behind them other labels that will do, too
-- returns {room, 1 if it is the new one, settings of one that nobody has begun yet, or empty}
local _, now = index_begin()
local seats, refused, last = tonumber(ARGV[1]), {}, 7 + ARGV[7]
for i = 8, last do
  refused[ARGV[i]] = true
end
local function settings(id)
  return string.match(redis.call('HGET', KEYS[1], id) or '', '^%- %S+ %S+ %S+ %S+ %S+ %S+ (%S+)$') or ''
end
if ARGV[6] ~= '0' then
  local found = redis.call('GET', KEYS[6])
  if found and not refused[found] then
    return {found, 0, settings(found)}
  end
end
local best, free, among
for i = last, #ARGV do
  local labels = i == last and ARGV[3] or ARGV[i]
  local some = redis.call('ZRANGEBYSCORE', KEYS[5] .. labels, seats, '+inf', 'WITHSCORES', 'LIMIT', 0, 1 + ARGV[7])
  for j = 1, #some, 2 do
    if not refused[some[j]] and (not best or tonumber(some[j + 1]) < free) then
      best, free, among = some[j], tonumber(some[j + 1]), labels
    end
  end
end
local new = not best
if new then
  best, free, among = ARGV[2], tonumber(ARGV[4]), ARGV[3]
  index_set(best, '-', '0', string.format('%.0f', now), '0 ' .. ARGV[4] .. ' 0 ' .. among .. ' ' .. ARGV[5], now)
  redis.call('ZADD', KEYS[3], now, best) -- until somebody has begun it
end
index_free(among, best, free - seats)
if ARGV[6] ~= '0' then
  redis.call('SET', KEYS[6], best, 'PX', ARGV[6])
end
return {best, new and 1 or 0, settings(best)}
