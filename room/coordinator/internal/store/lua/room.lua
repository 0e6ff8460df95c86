-- Functions for scripts that read or write a room. Each script gets those functions that
-- it uses.
--
-- users, meta, kept, log   keys of the room
-- at            where the arguments of the commit begin in ARGV:
--   at      id of the request; other contents need another id
--   at + 1  commit id of the room that the changes build on, empty if it has none; mark in Meta
--   at + 2  field of Meta that keeps the request's id: by:<node>, or moved
--   at + 3  version that is written
--   at + 4  event, or empty if there is nothing to write
--   at + 5  channel
--   at + 6, at + 7  how many members the room has before and after the commit
--   at + 8  how many members are set; from at + 11 user, member for each of them, then
--           the users that are removed, then fields of Meta with their values, then said
--   at + 9  empty, or optional fields, in one with spaces between, since a few
--           arguments take Redis as long as a command:
--             next    the same node's next token
--             ttl     of next's hold, in ms; empty if next may only wait if others do, and
--                     must not get the lock at once
--             epoch   new epoch
--             idle    ms that Redis keeps the room, if it is empty now and may expire; then, after a /, the ms
--                     for the journal, if different
--             fields  how many arguments at the end are fields and values
--             journal only with a journal: about how many entries it keeps
--             said    only if the kept messages change: how many messages are at the end
--             most    how many messages are kept; 0: none
--   at + 10 id of the commit
-- last          where the arguments end

-- Returns the optional fields: next, ttl, epoch, idle, fields, journal, said and most.
local function room_optional(at)
  if ARGV[at + 9] == '' then
    return '', '', '', '', 0, '', '', ''
  end
  return string.match(ARGV[at + 9], '^(%S*) (%S*) (%S*) (%S*) (%d+) ?(%d*) ?(%d*) ?(%d*)$')
end

-- Returns the TTL in ms of a hold that begins here, from ARGV[4]; nil if ARGV[4] is empty. "full" follows the
-- TTL if Redis is out of memory. Redis then refuses to SET the lock, except after another write, and without
-- the lock nobody could leave: so this begins with a write.
local function room_ttl(meta)
  if string.sub(ARGV[4], -4) == 'full' then
    redis.call('HDEL', meta, '')
  end
  return string.match(ARGV[4], '^%d+')
end

-- Returns epoch, version, commit id, number of members, settings, data, bans, gone, timers, host, incarnation and members
-- of a room. In the text of a script <incarnation> is that of the server; see incarnation.go.
local function room_read(users, meta)
  local room = redis.call('HMGET', meta, 'epoch', 'version', 'mark', 'members', 'settings', 'data', 'bans', 'gone', 'timers', 'host', 'incarnation')
  room[12] = redis.call('HGETALL', users)
  return room
end

-- Returns how many members the room has, or nothing if it is not the room that the changes
-- build on. is has the room's commit id and incarnation. The version would not do: after a
-- failover has lost a commit, another commit may have its number. The commit id does not show
-- that Redis has kept all later commits: the incarnation does, unless a new epoch begins anyway.
-- Nor does it show that the members are there, since Redis may have evicted one of the two keys,
-- or somebody removed members: so they are counted.
local function room_count(users, is, at, epoch)
  local there = redis.call('HLEN', users)
  if (is[1] or '') == ARGV[at + 1] and (epoch ~= '' or not is[1] or is[2] == '<incarnation>') and there == tonumber(ARGV[at + 6]) then
    return there
  end
end

-- Writes the room and tells others. there is how many members it had; epoch, idle, fields,
-- journal, said and most are optional fields.
--
-- Redis may refuse the first write; then nothing is written, and refused
-- says why. Messages that are kept, the entry of the journal and the event come last. If Redis refuses those,
-- unlogged and unheard say why, and the commit is done all the same.
--
-- returns refused, unheard, unlogged; each of them nil or an error
local function room_write(users, meta, kept, log, at, last, there, epoch, idle, fields, journal, said, most)
  local all, stays = last, idle
  if idle ~= '' then
    idle, stays = string.match(idle, '^(%d+)/?(%d*)$')
    stays = stays ~= '' and stays or idle
  end
  if said ~= '' then
    last = last - said
  end
  local removed, members, written = at + 11 + 2 * ARGV[at + 8], last - fields, nil
  -- Without memory Redis refuses HSET, but not after another write: so a commit that
  -- only removes begins with that, and leaves go through.
  if removed == at + 11 and members >= removed then
    written = redis.pcall('HDEL', users, ARGV[removed])
    removed = removed + 1
  end
  if type(written) == 'table' then
    return written.err
  elseif epoch == '' then
    written = redis.pcall('HSET', meta, 'version', ARGV[at + 3], 'members', ARGV[at + 7], 'mark', ARGV[at + 10], ARGV[at + 2], ARGV[at])
  else
    written = redis.pcall('HSET', meta, 'version', ARGV[at + 3], 'members', ARGV[at + 7], 'mark', ARGV[at + 10], ARGV[at + 2], ARGV[at], 'epoch', epoch, 'incarnation', '<incarnation>')
  end
  if type(written) == 'table' then
    return written.err
  end
  local set = at + 10 + 2 * ARGV[at + 8]
  for i = at + 11, set, 1000 do
    redis.call('HSET', users, unpack(ARGV, i, math.min(i + 999, set)))
  end
  for i = removed, members, 1000 do
    redis.call('HDEL', users, unpack(ARGV, i, math.min(i + 999, members)))
  end
  if members < last then
    redis.call('HSET', meta, unpack(ARGV, members + 1, last))
  end
  if idle ~= '' then
    redis.call('PEXPIRE', meta, idle)
  elseif there == 0 then
    redis.call('PERSIST', meta)
  end
  local unlogged = nil
  if said ~= '' then
    -- The messages that the room keeps: at most so many, and of 65,536 bytes (room.Kept). Each entry has with its
    -- message how long all are, up to it, that there ever were.
    local newest = redis.pcall('XREVRANGE', kept, '+', '-', 'COUNT', 1)
    unlogged = newest.err -- the key may be somebody else's
    if not unlogged and most == '0' then
      redis.call('DEL', kept)
    elseif not unlogged then
      local length = newest[1] and tonumber(newest[1][2][4]) or 0
      for i = last + 1, all do
        length = length + #ARGV[i]
        redis.call('XADD', kept, 'MAXLEN', most, '*', 'message', ARGV[i], 'length', string.format('%.0f', length))
      end
      local oldest = last < all and redis.call('XRANGE', kept, '-', '+', 'COUNT', 1)[1]
      while oldest and length - (tonumber(oldest[2][4]) or 0) + #oldest[2][2] > 65536 do
        redis.call('XDEL', kept, oldest[1])
        oldest = redis.call('XRANGE', kept, '-', '+', 'COUNT', 1)[1]
      end
      if idle ~= '' then
        redis.call('PEXPIRE', kept, idle)
      elseif there == 0 then
        redis.call('PERSIST', kept)
      end
    end
  end
  if journal ~= '' then
    local added = redis.pcall('XADD', log, 'MAXLEN', '~', journal, '*', 'commit', ARGV[at + 4])
    unlogged = type(added) == 'table' and added.err or unlogged
    if type(added) == 'table' then
      -- The key may be somebody else's.
    elseif idle ~= '' then
      redis.call('PEXPIRE', log, stays)
    elseif there == 0 then
      redis.call('PERSIST', log)
    end
  end
  local told = redis.pcall(ARGV[1], ARGV[at + 5], ARGV[at + 4])
  return nil, type(told) == 'table' and told.err or nil, unlogged
end
