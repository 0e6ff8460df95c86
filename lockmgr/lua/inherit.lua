-- Lets a token have what earlier ones have, whose requests were not answered; see lock_inherit.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- ARGV[4] the UUIDs at the end of the earlier ones, 36 characters each
for i = 1, #ARGV[4], 36 do
  lock_inherit(1, ARGV[3], string.sub(ARGV[3], 1, -37) .. string.sub(ARGV[4], i, i + 35))
end
return 1
