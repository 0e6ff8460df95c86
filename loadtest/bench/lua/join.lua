-- A user enters a room, without a lock.
-- KEYS[1]  the room's members, a hash from user to session
-- ARGV[1]  the user
-- ARGV[2]  the session
-- ARGV[3]  how many members the room may have
-- Returns 1 if the user is in, 0 if the room is full.
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
