-- The index of the rooms, for lists of rooms and for players who look for a table. Its keys are in one slot.
--
-- Lobby:Rooms     hash: room → "<epoch> <version> <since> <members> <capacity> <closed> <labels>", where since is when
--                 the room first got into the index, in ms since 1970 by Redis' clock, closed is 0 or 1, and labels
--                 are JSON. A room that is gone has only the first three. A room that nobody has joined yet has the
--                 epoch -, and its settings at the end.
-- Lobby:Changed   sorted set: room → the number of its last change, which grows
-- Lobby:Gone      sorted set: room that is gone, or that nobody has joined yet → since when, in ms since 1970
-- Lobby:State     hash: run, which names the life of this index: numbers of another life say nothing; incarnation, of
--                 Redis; number, of the last change; floor, below which rooms that are gone may be missing in
--                 Changed; whole, once all rooms of Redis are in the index; searched, when the last search began
-- Lobby:Free:<labels>  sorted set, among KEYS[5..] for labels that the caller knows: room with these labels that lets players in → seats that nobody has taken or claimed
--
-- The keys expire an hour after the last use.

-- Begins a life of the index if there is none, or Redis was restarted or replaced: something may be lost, so the rooms
-- are searched again. Returns run and the time in ms.
local function index_begin()
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local is = redis.call('HMGET', KEYS[4], 'run', 'incarnation')
  if not is[1] or is[2] ~= '<incarnation>' then
    is[1] = string.format('<incarnation>.%.0f', now)
    redis.call('HDEL', KEYS[4], 'whole', 'searched')
    redis.call('HSET', KEYS[4], 'run', is[1], 'incarnation', '<incarnation>')
  end
  for i = 1, 4 do
    redis.call('PEXPIRE', KEYS[i], 3600000)
  end
  return is[1], now
end

-- Returns the key of the rooms with labels; nothing if the caller has not declared it.
local function index_key(labels)
  local key = string.sub(KEYS[4], 1, -6) .. 'Free:' .. labels -- KEYS[4] ends with State
  for i = 5, #KEYS do
    if KEYS[i] == key then
      return key
    end
  end
end

-- Records how many free seats a room with labels has; 0 also for a room that is closed or gone. Returns false, and
-- changes nothing, if the caller has not declared the key: it gets the labels, and comes again.
local function index_free(labels, id, free)
  if not labels or labels == '{}' then
    return true
  end
  local key = index_key(labels)
  if not key then
    return false
  elseif free > 0 then
    redis.call('ZADD', key, free, id)
    redis.call('PEXPIRE', key, 3600000)
  else
    redis.call('ZREM', key, id)
  end
  return true
end

-- Writes the state of a room. If rest is empty, the room is gone.
local function index_set(id, epoch, version, since, rest, now)
  redis.call('HSET', KEYS[1], id, epoch .. ' ' .. version .. ' ' .. since .. (rest ~= '' and ' ' .. rest or ''))
  redis.call('ZADD', KEYS[2], redis.call('HINCRBY', KEYS[4], 'number', 1), id)
  if rest == '' then
    redis.call('ZADD', KEYS[3], now, id)
  else
    redis.call('ZREM', KEYS[3], id)
  end
end

-- Removes a room from the index, with its free seats. Returns false, and does nothing, if index_free does.
local function index_forget(id, labels)
  if not index_free(labels, id, 0) then
    return false
  end
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[3], id)
  return true
end
