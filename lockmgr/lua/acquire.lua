-- Acquires the lock, or waits for it.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim
-- ARGV[3] token   ARGV[4] TTL in ms
-- returns fence       acquired. A reply without a table takes Redis half a microsecond less
--         {position}  held by another; the token waits at that position
--         {}          held by another, and the token is buried
local held, position = lock_acquire(1, ARGV[3], ARGV[4], true)
if held then
  return lock_number(1)
end
return {position}
