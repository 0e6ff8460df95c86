-- Finds the fullest room with enough seats. The seats count as taken until note.lua writes the room again. If there is
-- no such room, creates one in the index, which later requests find as well.
--
-- KEYS[1..4] of the index   KEYS[5] Lobby:Match:<key>, the room that an earlier sending of the same request has found
-- KEYS[6..] of all labels in ARGV
-- ARGV[1] how many seats   ARGV[2] id of the new room; empty if none may be created   ARGV[3] its labels
-- ARGV[4] its capacity              ARGV[5] its settings, as JSON without blanks
-- ARGV[6] ms to keep KEYS[5]; 0 for a request that is never sent again
-- ARGV[7] how the id of a suitable room begins, unless the room is named; empty if all rooms are suitable
-- ARGV[8] how many unsuitable rooms follow   ARGV[9] how many named suitable rooms follow these
-- ARGV[10..] these rooms, then the suitable labels: none if only the new room is suitable
-- returns {room, empty if there is none; 1 if it is the new one; its settings if nobody has joined it yet, else empty;
-- how many seats count as taken from now on}. See unclaim.lua
local _, now = index_begin()
local seats, only, refused, named = tonumber(ARGV[1]), ARGV[7], {}, {}
local first = 10 + ARGV[8] + ARGV[9] -- of the labels
for i = 10, 9 + ARGV[8] do
  refused[ARGV[i]] = true
end
for i = 10 + ARGV[8], first - 1 do
  named[#named + 1] = ARGV[i]
end
local function settings(id)
  return string.match(redis.call('HGET', KEYS[1], id) or '', '^%- %S+ %S+ %S+ %S+ %S+ %S+ (%S+)$') or ''
end
if ARGV[6] ~= '0' then
  local found = redis.call('GET', KEYS[5])
  if found and not refused[found] then
    return {found, 0, settings(found), 0}
  end
end
local best, free, among
local function consider(id, seats_free, labels)
  if not refused[id] and (not best or seats_free < free) then
    best, free, among = id, seats_free, labels
  end
end
for i = first, #ARGV do
  local key = index_key(ARGV[i])
  -- If only some rooms are suitable, those that have just begun are not named: look for them among 500.
  local some = redis.call('ZRANGEBYSCORE', key, seats, '+inf', 'WITHSCORES', 'LIMIT', 0, only == '' and 1 + ARGV[8] or 500)
  for j = 1, #some, 2 do
    if string.sub(some[j], 1, #only) == only then
      consider(some[j], tonumber(some[j + 1]), ARGV[i])
    end
  end
  for _, id in ipairs(named) do
    local has = tonumber(redis.call('ZSCORE', key, id) or 0)
    if has >= seats then
      consider(id, has, ARGV[i])
    end
  end
end
local new = not best
if new and ARGV[2] == '' then
  return {'', 0, '', 0}
end
if new then
  best, free, among = ARGV[2], tonumber(ARGV[4]), ARGV[3]
  index_set(best, '-', '0', string.format('%.0f', now), '0 ' .. ARGV[4] .. ' 0 ' .. among .. ' ' .. ARGV[5], now)
  redis.call('ZADD', KEYS[3], now, best) -- until somebody joins it
end
index_free(among, best, free - seats)
if ARGV[6] ~= '0' then
  redis.call('SET', KEYS[5], best, 'PX', ARGV[6])
end
return {best, new and 1 or 0, settings(best), seats}
