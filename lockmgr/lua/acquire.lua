-- Acquires the lock, or waits for it.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim
-- ARGV[3] token   ARGV[4] TTL in ms
-- returns fence       acquired. A reply without a table takes Redis half a microsecond less
--         {position}  held by another; the token waits at that position
--         {}          held by another, and the token is buried
local fence, position = lock_acquire_fenced(1, ARGV[3], ARGV[4], true)
return fence or {position}
