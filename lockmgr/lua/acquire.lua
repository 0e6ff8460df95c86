-- Takes the lock, or waits for it.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim
-- ARGV[3] token   ARGV[4] TTL in ms   ARGV[5] ms to keep the queue, or 0 not to wait
-- returns {fence}         taken
--         {false, ahead, now}  held by another, and that many wait ahead of the
--                              caller; now is the server's time in us
local lock = lock_at(1, ARGV[1], ARGV[2])
fence = lock_take(lock, ARGV[3], ARGV[4])
if fence then
  return {fence}
end
if ARGV[5] == '0' then
  return {false, 0, 0}
end
lock_queue(lock, ARGV[3], tonumber(ARGV[5]))
return {false, redis.call('ZRANK', lock.queue, ARGV[3]), lock_now()}
