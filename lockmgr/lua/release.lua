-- Releases the lock.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- returns 1 released, 0 not held by the token
if not lock_holds(1, ARGV[3]) then
  return 0
elseif not lock_free(1) then
-- lock.lua
  lock_release(1)
end
return 1
