-- Takes a room's lock and reads the room, or waits for the lock.
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] token           ARGV[4] TTL in ms         ARGV[5] ms to keep the queue
-- ARGV[6] 1 if the caller has a copy of the room: the commit will say if that is old
-- ARGV[7] only there if Redis is out of memory. Then it refuses to SET the lock, but not
--         after another write; and without the lock nobody could leave
--
-- returns {'yours'}         the lock is held; the room was not read
--         {'yours', epoch or false, version or false, mark or false, members or false, {user, member, ...}}
--                           the lock is held, and this is the room
--         {'queued'}        another holds the lock, and the token waits
--
-- This half is lock_take for a lock that nobody holds or waits for, and for one that
-- is the caller's already. It stands before the functions of the lock, because
-- making those takes Redis as long as this whole script.
if ARGV[7] then
  redis.call('HDEL', KEYS[5], '')
end
local yours = redis.call('EXISTS', KEYS[2]) == 0 and redis.call('SET', KEYS[1], ARGV[3], 'NX', 'PX', ARGV[4])
local holder = not yours and redis.call('GET', KEYS[1])
if holder == ARGV[3] then
  yours = redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
if yours and ARGV[6] == '1' then
  return {'yours'}
end
