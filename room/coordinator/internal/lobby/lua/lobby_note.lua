-- Records what has become of rooms, if anybody has asked for the list of all of late. Nodes may come
-- in any order: the later version of a room counts.
--
-- KEYS[1] Lobby:changes: room → "<ms since 1970> <epoch> <version> <as it is now>", and ~ → since
--         when changes are recorded
-- ARGV[1] how many rooms it may hold
-- ARGV[2..] for each room its id, epoch, version, and how it is now
--
-- returns 1, or 0 if nobody asks: then nothing is recorded
if redis.call('HEXISTS', KEYS[1], '~') == 0 then
  return 0
end
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local full = redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1])
for i = 2, #ARGV, 4 do
  local old = redis.call('HGET', KEYS[1], ARGV[i])
  local epoch, version = string.match(old or '', '^%d+ (%S*) (%d+)')
  if old and epoch == ARGV[i + 1] and tonumber(version) >= tonumber(ARGV[i + 2]) or full and not old then
    -- It is known, or there is no place for it.
  else
    redis.call('HSET', KEYS[1], ARGV[i], now .. ' ' .. ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3])
  end
end
return 1
