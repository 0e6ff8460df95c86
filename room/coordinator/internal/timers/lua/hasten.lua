-- Has entries looked at now, although their timers are not due yet. Nodes have no alarms for later ones.
--
-- KEYS[1] Timers:due; see announce.lua
-- ARGV[1] behind which time of entries, in ms since 1970, or -inf   ARGV[2] how many at most
-- ARGV[3] in how many ms the last of them are looked at, at most
-- returns the time of the last one if there may be more, or empty
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local from = ARGV[1] == '-inf' and string.format('(%.0f', now) or '(' .. ARGV[1]
local entries = redis.call('ZRANGEBYSCORE', KEYS[1], from, string.format('%.0f', now + ARGV[3]), 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for i = 1, #entries, 2 do
  redis.call('ZADD', KEYS[1], 0, entries[i])
end
return #entries == 2 * ARGV[2] and entries[#entries] or ''
