-- SETNX, and EXPIRE only if it took. Redis Cluster refuses keys that are values.
-- KEYS[1] lock   KEYS[2] value   KEYS[3] until it expires
-- returns 1 if the lock is taken, 0 if it was held
local took = redis.call('SETNX', KEYS[1], KEYS[2])
if took == 1 then
  redis.call('EXPIRE', KEYS[1], KEYS[3])
end
return took
