-- Reads a page of a room's journal; if that is the last one, then with it the room, in one step.
-- KEYS[1] Room:<id>:Log   KEYS[2] Room:<id>:Users   KEYS[3] Room:<id>:Meta   KEYS[4] Room:<id>:Said
-- ARGV[1] the id of the first entry, or -   ARGV[2] how many entries a page has
-- It runs by EVALSHA_RO: Redis refuses it to write.
-- returns {entries}, or {entries, members, meta, {the four keys' TTLs in ms}, messages}
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
if #entries >= tonumber(ARGV[2]) then
  return {entries}
end
local ttls = {}
for i, key in ipairs(KEYS) do
  ttls[i] = redis.call('PTTL', key)
end
local said = redis.pcall('XRANGE', KEYS[4], '-', '+')
return {entries, redis.call('HGETALL', KEYS[2]), redis.call('HGETALL', KEYS[3]), ttls, said.err and {} or said}
