-- Takes the lock, or waits for it.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim
-- ARGV[3] token   ARGV[4] TTL in ms
-- returns {fence}                taken
--         {false, place, ahead}  held by another; the token waits at that place, behind
--                                so many
local taken, place = lock_take(1, ARGV[3], ARGV[4], true)
if taken then
  return {lock_number(1)}
end
return {false, place, redis.call('ZRANK', KEYS[2], ARGV[3])}
