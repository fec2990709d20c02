//! What scripts do with files, in Python.

use crate::world::World;

#[test]
fn files_are_written_in_every_way_a_script_knows() {
    let world = World::new();
    let said = world.python(
        "
import json, os, pathlib, shutil, tempfile
with open('log.txt', 'w') as file: file.write('one\\n')
with open('log.txt', 'a') as file: file.write('two\\n')
print(open('log.txt').read().split())
with open('a.txt', 'r+') as file: file.write('FIR')
print(open('a.txt').read())
pathlib.Path('out/deep').mkdir(parents=True, exist_ok=True)
pathlib.Path('out/deep/x.json').write_text(json.dumps({'a': [1]}))
print(json.load(open('out/deep/x.json')), sorted(p.name for p in pathlib.Path('out').rglob('*')))
with open('b.txt.tmp', 'w') as file: file.write('replaced')
os.replace('b.txt.tmp', 'b.txt')
print(open('b.txt').read(), sorted(os.listdir()))
shutil.copytree('data', 'copied')
shutil.move('copied/c.txt', 'moved.txt')
shutil.rmtree('data')
print(os.path.exists('data'), os.path.exists('to_data'), os.path.islink('to_data'), open('moved.txt').read().strip())
with tempfile.TemporaryDirectory(dir='.') as directory:
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(b'x'); file.flush()
        print(os.stat(file.name).st_size, os.listdir(directory) == [os.path.basename(file.name)])
print(os.path.exists(directory), os.getcwd() == os.path.realpath('.'), os.path.realpath('out/../out/deep') == os.getcwd() + '/out/deep')
with os.scandir() as entries:
    print([(e.name, e.is_dir(), e.is_file(), e.is_symlink()) for e in sorted(entries, key=lambda e: e.name)][:4])
try: open('nowhere/x', 'w')
except FileNotFoundError as error: print(error.errno)
try: open('out', 'w')
except IsADirectoryError as error: print(error.errno)
os.unlink('a.txt'); print(os.path.exists('a.txt'), os.path.lexists('to_a'), os.path.exists('to_a'))
open('to_a', 'w').write('again'); print(open('a.txt').read())
",
    );
    assert_eq!(
        said,
        "['one', 'two']
FIRst

{'a': [1]} ['deep', 'x.json']
replaced ['a.txt', 'b.txt', 'data', 'empty', 'log.txt', 'out', 'to_a', 'to_data']
False False True third
1 True
False True True
[('a.txt', False, True, False), ('b.txt', False, True, False), ('copied', True, False, False), ('empty', True, False, False)]
2
21
False True False
again
"
    );
}

#[test]
fn a_database_is_kept_and_an_old_one_is_copied() {
    let world = World::new();
    let fill = "
import sqlite3
base = sqlite3.connect('base.db'); base.execute('pragma journal_mode=wal')
base.execute('create table if not exists t (x)'); base.execute('insert into t values (1)'); base.commit()
print(base.execute('select count(*) from t').fetchone())
base.close()";
    let status = std::process::Command::new("python3").args(["-c", fill]).current_dir(&world.home).status().unwrap();
    assert!(status.success());
    assert_eq!(world.python(fill), "(2,)\n");
    assert_eq!(world.python(fill), "(3,)\n");
}

#[test]
fn threads_and_forks_write_at_once() {
    let world = World::new();
    let said = world.python(
        "
import os, threading
def write(name):
    for i in range(50):
        os.makedirs(f'out/{i}', exist_ok=True)
        with open(f'out/{i}/{name}', 'w') as file: file.write(name)
        with open('data/deep/d.txt', 'a') as file: file.write('x')
children = []
for c in range(3):
    child = os.fork()
    if not child:
        write(f'child{c}'); os._exit(0)
    children.append(child)
threads = [threading.Thread(target=write, args=(f'thread{t}',)) for t in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print([os.waitpid(child, 0)[1] for child in children])
print(all(len(os.listdir(f'out/{i}')) == 7 for i in range(50)), os.path.getsize('data/deep/d.txt'))
",
    );
    assert_eq!(said, format!("[0, 0, 0]\nTrue {}\n", 7 + 7 * 50));
}
