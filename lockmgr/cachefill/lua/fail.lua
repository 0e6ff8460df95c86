-- Notes that a load has failed and gives the lock back, if it is still its loader's.
-- KEYS[1..3] lock   KEYS[4] failure
-- ARGV[1] publish   ARGV[2] claim   ARGV[3] token   ARGV[4] message   ARGV[5] ms to keep it
-- returns 1 noted, 0 refused
local lock = lock_at(1, ARGV[1], ARGV[2])
if not lock_holds(lock, ARGV[3]) then
  return 0
end
redis.call('HSET', KEYS[4], 'at', string.format('%.0f', lock_now()), 'message', ARGV[4])
redis.call('PEXPIRE', KEYS[4], ARGV[5])
lock_give(lock, ARGV[3])
return 1
