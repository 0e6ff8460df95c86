-- Stops waiting for a lock, or for several.
-- KEYS[1..3] the first lock   KEYS[4..6] the second   and so on
-- ARGV[1] publish   ARGV[2] claim   then for each lock:
--   its token
--   the UUIDs of those tokens of the caller whose requests may still arrive, 36 characters
--   each; the token may be one of them
-- returns how many locks one of these tokens held; they are released
local left = 0
for i = 3, #ARGV, 2 do
  local at, token = 3 * (i - 3) / 2 + 1, ARGV[i]
  local held = lock_abandon(at, token)
  for j = 1, #ARGV[i + 1], 36 do
    local other = string.sub(token, 1, -37) .. string.sub(ARGV[i + 1], j, j + 35)
    lock_bury(at, other)
    held = lock_holds(at, other) and (lock_release(at) or true) or held
  end
  left = left + (held and 1 or 0)
end
return left
