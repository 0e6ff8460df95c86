-- Ends a node's lease: the grace of its members begins. A node without members leaves
-- nothing behind.
--
-- KEYS[1] Node:<node>   KEYS[2] Node:<node>:Rooms   KEYS[3] Nodes, or Nodes:{<home>}
-- ARGV[1] node
redis.call('DEL', KEYS[1])
if redis.call('SCARD', KEYS[2]) == 0 then
  return redis.call('ZREM', KEYS[3], ARGV[1])
end
local t = redis.call('TIME')
return redis.call('ZADD', KEYS[3], t[1] * 1000 + math.floor(t[2] / 1000), ARGV[1])
