-- Stands before the functions of the lock in acquire.lua: making them takes Redis
-- as long as this whole script. It is lock_take for a lock that nobody holds or
-- waits for, and for one that is the caller's already.
local fence = 0
if redis.call('EXISTS', KEYS[2]) == 0 and redis.call('SET', KEYS[1], ARGV[3], 'NX', 'PX', ARGV[4]) then
  fence = redis.call('INCR', KEYS[3])
elseif redis.call('GET', KEYS[1]) == ARGV[3] then
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  fence = redis.call('INCR', KEYS[3])
end
if fence >= 1000000 then
  return {fence}
end
