-- Stands before the functions of the lock in acquire.lua: making them takes Redis
-- as long as this whole script. It is lock_take for a lock that nobody holds or
-- waits for.
if redis.call('EXISTS', KEYS[2]) == 0 and redis.call('SET', KEYS[1], ARGV[3], 'NX', 'PX', ARGV[4]) then
  local fence = redis.call('INCR', KEYS[3])
  if fence >= 1000000 then
    return {fence}
  end
end
