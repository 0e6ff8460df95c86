-- Begins a search for all rooms: from now on changes are recorded, or still are.
--
-- KEYS[1] Lobby:changes
-- ARGV[1] ms to keep it, if no other search begins   ARGV[2] ms to keep a change: longer than a list
--         is shown
-- returns the time in ms since 1970: what has changed before it is found
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if all[i] ~= '~' and tonumber(string.match(all[i + 1], '^%d+') or 0) < now - ARGV[2] then
    redis.call('HDEL', KEYS[1], all[i])
  end
end
redis.call('HSETNX', KEYS[1], '~', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return now
