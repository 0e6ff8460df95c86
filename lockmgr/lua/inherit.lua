-- Gives tokens what earlier tokens have, whose requests were not answered; see lock_inherit.
-- KEYS[1..3] the first lock   KEYS[4..6] the second   and so on
-- ARGV[1] publish   ARGV[2] claim   then for each lock: its token, and the UUIDs of the
-- earlier tokens, 36 characters each
for i = 3, #ARGV, 2 do
  for j = 1, #ARGV[i + 1], 36 do
    lock_inherit(3 * (i - 3) / 2 + 1, ARGV[i], string.sub(ARGV[i], 1, -37) .. string.sub(ARGV[i + 1], j, j + 35))
  end
end
return 1
