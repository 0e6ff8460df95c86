-- Lists a node among those that may have members, in some rooms. The time of a node already listed stays.
-- If the node has no members there, the node that removes a dead node's members finds that out.
--
-- KEYS[1] Node:<node>:Rooms   KEYS[2] Nodes, or Nodes:{<hash tag>}
-- ARGV[1] node   ARGV[2..] rooms, at most 1000
redis.call('SADD', KEYS[1], unpack(ARGV, 2))
local t = redis.call('TIME')
return redis.call('ZADD', KEYS[2], 'NX', t[1] * 1000 + math.floor(t[2] / 1000), ARGV[1])
