-- Takes the lock, or says who has it.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token   ARGV[4] TTL in ms
-- returns {fence}          taken
--         {false, holder}  that token has it, or is to have it next
local lock = lock_at(1, ARGV[1], ARGV[2])
if lock_take(lock, ARGV[3], ARGV[4]) then
  return {lock_number(lock)}
end
return {false, redis.call('GET', lock.key)}
