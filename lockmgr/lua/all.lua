-- Takes several locks, or none of them.
-- KEYS[1..3] the first lock   KEYS[4..6] the second   and so on
-- ARGV[1] publish   ARGV[2] claim   ARGV[3] TTL in ms   ARGV[4..] a token for each lock
-- returns {fence, ...}  all taken, in the order of KEYS
--         {}            one of them is held by another or waited for: nothing was changed
local locks = {}
for i = 4, #ARGV do
  locks[i - 3] = lock_at(3 * (i - 4) + 1, ARGV[1], ARGV[2])
  if not lock_open(locks[i - 3], ARGV[i]) then
    return {}
  end
end
local fences = {}
for i, lock in ipairs(locks) do
  lock_take(lock, ARGV[i + 3], ARGV[3])
  fences[i] = lock_number(lock)
end
return fences
