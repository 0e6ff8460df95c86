-- Stops waiting.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- ARGV[4] the UUIDs at the end of those tokens of the same caller that may still be on their
--         way to the lock, 36 characters each; ARGV[3] may be one of them
-- returns 1 if one of them had been given the lock, which is released; 0 if not
local left = lock_abandon(1, ARGV[3])
for i = 1, #ARGV[4], 36 do
  local token = string.sub(ARGV[3], 1, -37) .. string.sub(ARGV[4], i, i + 35)
  lock_bury(1, token)
  left = lock_holds(1, token) and (lock_release(1) or true) or left
end
return left and 1 or 0
