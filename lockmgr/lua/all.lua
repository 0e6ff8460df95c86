-- Acquires several locks, or none of them.
-- KEYS[1..3] the first lock   KEYS[4..6] the second   and so on
-- ARGV[1] publish   ARGV[2] claim   ARGV[3] TTL in ms   ARGV[4..] a token for each lock
-- returns {fence, ...}  all acquired, in the order of KEYS
--         {}            one of them is held by another or waited for: nothing was changed
for i = 4, #ARGV do
  if not lock_open(3 * (i - 4) + 1, ARGV[i]) then
    return {}
  end
end
local fences = {}
for i = 4, #ARGV do
  fences[i - 3] = lock_acquire_fenced(3 * (i - 4) + 1, ARGV[i], ARGV[3])
end
return fences
