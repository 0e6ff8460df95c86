-- Notes that a node may have members in a room, and writes even if that is known, so
-- that a WAIT for replicas counts: it does so from the connection's last write.
-- KEYS[1] Node:<node>:Rooms   ARGV[1] room
if redis.call('SADD', KEYS[1], ARGV[1]) == 0 then
  redis.call('SREM', KEYS[1], ARGV[1])
  redis.call('SADD', KEYS[1], ARGV[1])
end
return 1
