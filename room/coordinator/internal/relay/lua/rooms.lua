-- Lists some of the rooms that the feed knows.
--
-- KEYS[1] hash: room → the place up to which the feed has its journal
-- ARGV[1] cursor of the last answer; 0 is the beginning
-- ARGV[2] incarnation of the last answer
-- ARGV[3] about how many
-- returns {cursor, 0 at the end; incarnation; 1 if the list begins here; fields and values}
--
-- A cursor is valid only at the server that returned it, until that server restarts. Elsewhere a list that continued at
-- the cursor would leave rooms out, so it begins again.
local cursor = ARGV[2] == '<incarnation>' and ARGV[1] or '0'
local found = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', math.max(1, tonumber(ARGV[3]) or 1))
return {found[1], '<incarnation>', cursor == '0' and 1 or 0, found[2]}
