-- Stands before the functions of the lock in release.lua: making them takes Redis
-- as long as this whole script. It is lock_give and lock_pass for a lock that
-- nobody waits for in other processes.
if redis.call('EXISTS', KEYS[2]) == 0 and redis.call('GET', KEYS[1]) == ARGV[3] then
  if ARGV[4] == '' then
    redis.call('DEL', KEYS[1])
    return {1}
  end
  local fence = redis.call('INCR', KEYS[3])
  if fence >= 1000000 then
    redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
    return {1, fence}
  end
end
