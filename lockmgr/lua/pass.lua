-- Releases the lock, if possible to the next waiter of the same process.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- ARGV[4] token of that waiter   ARGV[5] TTL in ms
-- returns fence       given to that waiter
--         {position}  given to another, and that waiter waits at that position
--         {}          given to another, or to nobody, and that waiter does not wait: it is buried
--         0           the token did not hold it
if not lock_holds(1, ARGV[3]) then
  return 0
end
local held, position = lock_release(1, ARGV[4], ARGV[5])
if held then
  return lock_number(1)
end
return {position}
