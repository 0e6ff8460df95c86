-- Removes a dead node from those that may have members, unless it has a lease or members: Redis may have come back
-- from an older copy since they were removed, and nobody would look for the members of an unlisted node.
--
-- KEYS[1] Node:<node>   KEYS[2] Node:<node>:Rooms   KEYS[3] Nodes, or Nodes:{<hash tag>}
-- KEYS[4] Node:<node>:Stopped, deleted with the node
-- ARGV[1] node
-- returns 1, 0 if another node was faster, or -1 if the dead node stays listed
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('SCARD', KEYS[2]) > 0 then
  return -1
end
redis.call('DEL', KEYS[4])
return redis.call('ZREM', KEYS[3], ARGV[1])
