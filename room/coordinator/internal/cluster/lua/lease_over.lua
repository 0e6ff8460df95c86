-- Ends the lease of a node that did not prolong it for its TTL. The lease may still be in
-- Redis if its clock was set back.
--
-- KEYS[1] Node:<node>   KEYS[2] Node:<node>:Over, see lease.lua
-- ARGV[1] the lease that the caller saw for its TTL, or empty   ARGV[2] ms to keep KEYS[2]
-- returns 1 if the lease is over, 0 if it was prolonged
local lease = redis.call('GET', KEYS[1])
if lease and lease ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1]) -- first: without memory Redis refuses SET, but not after another write
redis.call('SET', KEYS[2], '', 'PX', ARGV[2])
return 1
