-- Begins a node's lease, or prolongs it. In the same step the node is put among those
-- that may have members, with the time until which it is to be believed, by the
-- server's clock: it is never alive and unknown.
--
-- KEYS[1] Node:<node>   KEYS[2] Node:<node>:Rooms   KEYS[3] Nodes, or Nodes:{<home>}
-- ARGV[1] node          ARGV[2] TTL in ms
-- ARGV[3] begin, or prolong: only if the lease is not over
--
-- returns how many rooms the node may have members in, or -1 if the lease was over
if ARGV[3] == 'prolong' and redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
local t = redis.call('TIME')
redis.call('ZADD', KEYS[3], t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2], ARGV[1])
redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
return redis.call('SCARD', KEYS[2])
