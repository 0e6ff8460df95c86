-- Records that a node may have members in some rooms, or deletes such records. A record
-- that is there is written again, so that a WAIT for replicas, which counts from the
-- connection's last write, covers it.
--
-- A request may arrive long after its sender gave up. If its beat is earlier than the
-- lease's, it does nothing. Without a lease it adds nothing, because nobody would ever
-- delete the record.
--
-- KEYS[1] Node:<node>   KEYS[2] Node:<node>:Rooms
-- ARGV[1] add or remove   ARGV[2] beat   ARGV[3..] rooms, at most 1000
--
-- returns 1, or 0 if it comes too late
local lease, ours = redis.call('GET', KEYS[1]), tonumber(ARGV[2])
local beat = lease and tonumber(string.match(lease, '^%d+') or 0)
if lease and beat > ours or not lease and ARGV[1] == 'add' then
  return 0
end
if ARGV[1] == 'remove' or redis.call('SISMEMBER', KEYS[2], ARGV[3]) == 1 then
  redis.call('SREM', KEYS[2], unpack(ARGV, 3))
end
if ARGV[1] == 'add' then
  redis.call('SADD', KEYS[2], unpack(ARGV, 3))
end
if lease and beat < ours then
  redis.call('SET', KEYS[1], ARGV[2] .. string.gsub(lease, '^%d+', ''), 'KEEPTTL')
end
return 1
