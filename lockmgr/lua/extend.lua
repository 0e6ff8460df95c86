-- KEYS[1] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token   ARGV[4] TTL in ms
-- returns 1 extended, 0 nobody holds it, -1 held by another
local lock = lock_at(1, ARGV[1], ARGV[2])
if lock_extend(lock, ARGV[3], ARGV[4]) then
  return 1
end
return redis.call('EXISTS', lock.key) == 1 and -1 or 0
