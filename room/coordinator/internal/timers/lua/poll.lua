-- Returns the timers that should have fired. No other node gets them for a while. Before that it writes and
-- removes entries.
--
-- KEYS[1] Timers:due; see announce.lua
-- ARGV[1] for how many ms a timer must have been due   ARGV[2] for how many ms no other node gets it
-- ARGV[3] how many are returned at most
-- ARGV[4] how many entries are written: they and when they are due follow, two arguments each; then
--         those that are removed
--
-- returns {now in µs since 1970, entry, entry, ...}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local removed = 5 + 2 * ARGV[4]
for i = 5, removed - 1, 2 do
  redis.call('ZADD', KEYS[1], 'NX', ARGV[i + 1], ARGV[i])
end
for i = removed, #ARGV do
  redis.call('ZREM', KEYS[1], ARGV[i])
end
local entries = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[1]), 'LIMIT', 0, ARGV[3])
for _, entry in ipairs(entries) do
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2] - ARGV[1]), entry)
end
table.insert(entries, 1, t[1] * 1000000 + t[2])
return entries
