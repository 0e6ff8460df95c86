-- SETNX, and EXPIRE only if it took.
-- KEYS[1] lock   ARGV[1] value   ARGV[2] until it expires
-- returns 1 if the lock is taken, 0 if it was held
local took = redis.call('SETNX', KEYS[1], ARGV[1])
if took == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return took
