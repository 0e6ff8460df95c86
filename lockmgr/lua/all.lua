-- Takes several locks, or none of them.
-- KEYS[1..3] the first lock   KEYS[4..6] the second   and so on
-- ARGV[1] publish   ARGV[2] claim   ARGV[3] TTL in ms   ARGV[4..] a token for each lock
-- returns {fence, ...}  all taken, in the order of KEYS
--         {}            one of them is held by another or waited for: nothing was changed
local locks = {}
for i = 4, #ARGV do
  local lock = lock_at(#locks * 3 + 1, ARGV[1], ARGV[2])
  local holder = redis.call('GET', lock.key)
  if holder and holder ~= ARGV[i] then
    return {}
  end
  if not holder and redis.call('EXISTS', lock.queue) == 1 then
    return {}
  end
  locks[#locks + 1] = lock
end
local fences = {}
for i, lock in ipairs(locks) do
  fences[i] = lock_take(lock, ARGV[i + 3], ARGV[3])
end
return fences
