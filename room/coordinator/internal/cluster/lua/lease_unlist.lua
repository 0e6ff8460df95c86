-- Takes a dead node off those that may have members, unless it has: Redis may have come back from an older copy since
-- they were removed, and nobody else would look for them. Nor would anyone if the node began its lease again.
--
-- KEYS[1] Node:<node>   KEYS[2] Node:<node>:Rooms   KEYS[3] Nodes, or Nodes:{<hash tag>}
-- KEYS[4] Node:<node>:Stopped, which nobody needs any more then
-- ARGV[1] node
-- returns 1, 0 if another was faster, or -1 if it stays
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('SCARD', KEYS[2]) > 0 then
  return -1
end
redis.call('DEL', KEYS[4])
return redis.call('ZREM', KEYS[3], ARGV[1])
