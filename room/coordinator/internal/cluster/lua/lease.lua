-- Begins a node's lease, or prolongs it. The same step lists the node in Nodes, among the
-- nodes that may have members: every live node is listed.
--
-- The lease holds "<beat> <TTL> <grace> <address> <settings>"; the address may be empty.
-- The beat grows with every prolongation, so that others see by their own clocks whether
-- the node lives, however Redis' clock is set; and with every request whose outcome is in
-- doubt, so that a late request has no effect (see lease_rooms.lua).
--
-- KEYS[1] Node:<node>   KEYS[2] Node:<node>:Rooms   KEYS[3] Nodes, or Nodes:{<hash tag>}
-- KEYS[4] Node:<node>:Over, which exists if the lease was ended: a late copy of the request
--         that began the lease must not begin it again
-- ARGV[1] node          ARGV[2] TTL in ms           ARGV[3] grace in ms   ARGV[4] beat
-- ARGV[5] address and settings
-- ARGV[6] empty to begin a lease; to prolong one, the beat that Redis had last. If Redis has
--         an earlier beat, it was restarted from an old copy of its data: the lease is then
--         over, as if missing
--
-- returns how many rooms the node may have members in, or -1 if the lease is over
local lease = redis.call('GET', KEYS[1])
local beat = lease and tonumber(string.match(lease, '^%d+') or 0)
if ARGV[6] ~= '' and (not beat or beat < tonumber(ARGV[6])) then
  return -1
end
if not lease and redis.call('EXISTS', KEYS[4]) == 1 then
  return -1
end
local t = redis.call('TIME')
beat = math.max(beat or 0, tonumber(ARGV[4]))
local value = string.format('%.0f %s %s %s', beat, ARGV[2], ARGV[3], ARGV[5])
-- Without memory Redis refuses SET and ZADD, but not after another write.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
redis.call('ZADD', KEYS[3], t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2], ARGV[1])
return redis.call('SCARD', KEYS[2])
