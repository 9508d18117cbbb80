-- Get or set the variant of a person known under a few reader ids.
-- KEYS  1 reader id -> packed exposure  2 person -> their other reader ids, each as <length>:<id>
--       3 what strangers did on this day
-- ARGV  1 'read', 'take' or 'force'  2 proposed exposure up to its person, or ''  3 number of variants
--       4... variant ids, then reader ids, the one that wins first; before them, with a caller without proof:
--       'stranger', address, new readers of an address, of all addresses, addresses counted apart, life of counts s
-- Gives the packed exposure, or '' when there is none. A stranger's is not remembered once too many are.
local stranger = nil
if ARGV[1] == 'stranger' then
  stranger = {table.remove(ARGV, 2), table.remove(ARGV, 2), table.remove(ARGV, 2), table.remove(ARGV, 2),
    table.remove(ARGV, 2)}
  table.remove(ARGV, 1)
end
local function admit()
  if not stranger then
    return true
  end
  local mine = 'met:' .. stranger[1]
  local held = redis.call('HMGET', KEYS[3], mine, 'met')
  if not held[1] and redis.call('HLEN', KEYS[3]) >= tonumber(stranger[4]) then
    mine = 'met:rest'
    held[1] = redis.call('HGET', KEYS[3], mine)
  end
  if tonumber(held[1] or '0') >= tonumber(stranger[2]) or tonumber(held[2] or '0') >= tonumber(stranger[3]) then
    return false
  end
  redis.call('HINCRBY', KEYS[3], mine, 1)
  redis.call('HINCRBY', KEYS[3], 'met', 1)
  redis.call('EXPIRE', KEYS[3], stranger[5])
  return true
end

local variants = tonumber(ARGV[3])
local known = {}
for i = 4, 3 + variants do
  known[ARGV[i]] = true
end
local held, winner = {}, nil
for i = 4 + variants, #ARGV do
  local packed = redis.call('HGET', KEYS[1], ARGV[i])
  held[i] = packed
  if packed and not winner and known[string.match(packed, '^([^\31]*)')] then
    winner = packed
  end
end
local person = ARGV[4 + variants]
if winner then
  person = string.match(winner, '^[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31(.*)$') or person
end
if ARGV[1] ~= 'read' and ARGV[2] ~= '' and (ARGV[1] == 'force' or not winner) then
  winner = ARGV[2] .. person
end
if ARGV[1] == 'read' or not winner then
  return winner or ''
end
for i = 4 + variants, #ARGV do
  if held[i] ~= winner and (held[i] or admit()) then
    redis.call('HSET', KEYS[1], ARGV[i], winner)
    if ARGV[i] ~= person then
      local others = redis.call('HGET', KEYS[2], person) or ''
      local at, there = 1, false
      while at <= #others and not there do
        local colon = string.find(others, ':', at, true)
        local length = tonumber(string.sub(others, at, colon - 1))
        there = string.sub(others, colon + 1, colon + length) == ARGV[i]
        at = colon + length + 1
      end
      if not there then
        redis.call('HSET', KEYS[2], person, others .. #ARGV[i] .. ':' .. ARGV[i])
      end
    end
  end
end
return winner
