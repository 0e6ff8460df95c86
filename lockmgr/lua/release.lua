-- Gives the lock back, if possible to the next waiter of the same process.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- ARGV[4] token of that waiter, or empty   ARGV[5] TTL in ms
-- returns {1, fence}  given to that waiter
--         {1}         given back
--         {0}         nobody holds it
--         {-1}        held by another
local lock = lock_at(1, ARGV[1], ARGV[2])
if ARGV[4] ~= '' then
  local fence = lock_pass(lock, ARGV[3], ARGV[4], ARGV[5])
  if fence then
    return {1, fence}
  end
end
if lock_give(lock, ARGV[3]) then
  return {1}
end
return {redis.call('EXISTS', lock.key) == 1 and -1 or 0}
