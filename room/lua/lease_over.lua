-- Ends the lease of a node that has not prolonged it for its TTL, if it is in Redis
-- still: Redis' clock may have been set back.
--
-- KEYS[1] Node:<node>   ARGV[1] the lease as it was seen all the time, or empty
-- returns 1 if the lease is over, 0 if it has been prolonged
local lease = redis.call('GET', KEYS[1])
if lease and lease ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
