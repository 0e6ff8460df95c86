-- Takes the lock, or waits for it.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim
-- ARGV[3] token   ARGV[4] TTL in ms   ARGV[5] ms to keep the queue, or 0 not to wait
-- returns {fence}                taken
--         {false, place, ahead}  held by another; the token waits at that place, behind
--                                so many
local lock = lock_at(1, ARGV[1], ARGV[2])
if lock_take(lock, ARGV[3], ARGV[4]) then
  return {lock_number(lock)}
end
if ARGV[5] == '0' then
  return {false, '0', 0}
end
local place = lock_queue(lock, ARGV[3], tonumber(ARGV[5]))
return {false, place, redis.call('ZRANK', lock.queue, ARGV[3])}
