-- Gives the lock back, if possible to the next waiter of the same process.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- ARGV[4] token of that waiter, or empty   ARGV[5] TTL in ms
-- ARGV[6] ms to keep the queue
-- returns {1, fence}         given to that waiter
--         {1, false, place}  given to another, and that waiter waits
--         {1}                given to another or to nobody, if no waiter was named
--         {0}                the token did not hold it
local lock = lock_at(1, ARGV[1], ARGV[2])
if ARGV[4] == '' then
  return {lock_give(lock, ARGV[3]) and 1 or 0}
end
if not lock_holds(lock, ARGV[3]) then
  return {0}
end
local passed, place = lock_pass(lock, ARGV[4], ARGV[5], tonumber(ARGV[6]))
if passed then
  return {1, lock_number(lock)}
end
return {1, false, place}
