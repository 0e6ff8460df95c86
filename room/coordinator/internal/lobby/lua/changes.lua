-- Returns what has changed in the index.
--
-- KEYS[1..4] of the index
-- ARGV[1], ARGV[2] run, and the number of the last change, that the caller knows; run is empty if it knows none
-- ARGV[3] how many rooms at most   ARGV[4] the number up to which the caller knows which rooms are gone
-- returns run, 1 if all rooms are in the index, 1 if the caller has to forget its copy, the number of the last change;
-- and for each room that has changed since then: its id, its value in Lobby:Rooms, and the number of its change
local run = index_begin()
local is = redis.call('HMGET', KEYS[4], 'number', 'floor', 'whole')
local since = tonumber(ARGV[2])
local anew = run ~= ARGV[1] or tonumber(ARGV[4]) < tonumber(is[2] or 0) or since > tonumber(is[1] or 0)
local changed = redis.call('ZRANGEBYSCORE', KEYS[2], anew and '-inf' or '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local reply = {run, is[3] and 1 or 0, anew and 1 or 0, is[1] or '0'}
for i = 1, #changed, 2 do
  reply[#reply + 1] = changed[i]
  reply[#reply + 1] = redis.call('HGET', KEYS[1], changed[i]) or ''
  reply[#reply + 1] = changed[i + 1]
end
return reply
