-- Ends a node's lease because the node stops: the grace of its members begins. KEYS[4]
-- tells the node that removes them that this one did not die. A node without members
-- leaves only KEYS[5], for a while; see lease.lua.
--
-- KEYS[1] Node:<node>   KEYS[2] Node:<node>:Rooms   KEYS[3] Nodes, or Nodes:{<hash tag>}
-- KEYS[4] Node:<node>:Stopped   KEYS[5] Node:<node>:Over
-- ARGV[1] node   ARGV[2] address, or empty   ARGV[3], ARGV[4] ms to keep KEYS[4], KEYS[5]
redis.call('DEL', KEYS[1])
redis.pcall('SET', KEYS[5], '', 'PX', ARGV[4])
if redis.call('SCARD', KEYS[2]) == 0 then
  return redis.call('ZREM', KEYS[3], ARGV[1])
end
local t = redis.call('TIME')
redis.call('ZADD', KEYS[3], t[1] * 1000 + math.floor(t[2] / 1000), ARGV[1])
-- Last, since Redis may refuse this SET: the node then only counts as dead.
redis.pcall('SET', KEYS[4], ARGV[2], 'PX', ARGV[3])
return 1
