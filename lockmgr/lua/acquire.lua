-- Takes the lock, or waits for it.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim
-- ARGV[3] token   ARGV[4] TTL in ms   ARGV[5] ms to keep the queue, or 0 not to wait
-- returns {fence}                taken
--         {false, place, ahead}  held by another; the token waits at that place, behind
--                                so many
if lock_take(1, ARGV[3], ARGV[4]) then
  return {lock_number(1)}
end
if ARGV[5] == '0' then
  return {false, '0', 0}
end
local place = lock_line(1).queue(ARGV[3], tonumber(ARGV[5]))
return {false, place, redis.call('ZRANK', KEYS[2], ARGV[3])}
