-- Stores a loaded value and gives the lock back, if it is still its loader's.
-- KEYS[1..3] lock   KEYS[4] entry   KEYS[5] failure
-- ARGV[1] publish   ARGV[2] claim   ARGV[3] token   ARGV[4] value   ARGV[5] ms to keep it
-- returns 1 stored, by this request or when it was sent before; 0 refused
local lock = lock_at(1, ARGV[1], ARGV[2])
if not lock_holds(lock, ARGV[3]) then
  return redis.call('HGET', KEYS[4], 'by') == ARGV[3] and 1 or 0
end
redis.call('HSET', KEYS[4], 'value', ARGV[4], 'by', ARGV[3])
redis.call('PEXPIRE', KEYS[4], ARGV[5])
redis.call('DEL', KEYS[5])
lock_give(lock, ARGV[3])
return 1
