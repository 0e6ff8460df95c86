-- Appends commits of rooms to the feed.
--
-- KEYS[1] the feed, a stream: each entry has room, at (the id of the journal's entry), and commit or gap
-- KEYS[2] hash: room → the place up to which the feed has its journal; ~incarnation → of Redis, at the last entry
-- ARGV[1] about how many entries the feed keeps
-- ARGV[2..] for each room: id, the place that the caller knows, the one after this (empty to forget the room), how many
--           entries come, and for each of them its kind, at and text
-- returns the rooms of which Redis knows another place; nothing is appended for these
--
-- After a restart or a failover Redis may have lost the last entries, and its clock may be behind: readers know ids
-- that are larger than any in the feed. An old master may even go on for a while beside the new one, with readers of its
-- own. So the next id is then a day after the last one, and after the time.
local id, anew = '*', redis.call('HGET', KEYS[2], '~incarnation') ~= '<incarnation>'
if anew then
  local t, last = redis.call('TIME'), redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  id = string.format('%.0f-0', math.max(now, last and tonumber(string.match(last[1], '^%d+')) or 0) + 86400000)
end
local refused, i = {}, 2
while i <= #ARGV do
  local room, next, count = ARGV[i], ARGV[i + 2], tonumber(ARGV[i + 3])
  if (redis.call('HGET', KEYS[2], room) or '') == ARGV[i + 1] then
    for j = i + 4, i + 1 + 3 * count, 3 do
      redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], id, 'room', room, 'at', ARGV[j + 1], ARGV[j], ARGV[j + 2])
      if anew then
        redis.call('HSET', KEYS[2], '~incarnation', '<incarnation>')
        id, anew = '*', false
      end
    end
    if next == '' then
      redis.call('HDEL', KEYS[2], room)
    else
      redis.call('HSET', KEYS[2], room, next)
    end
  else
    refused[#refused + 1] = room
  end
  i = i + 4 + 3 * count
end
return refused
