//! Programs of the system that make, copy, move and remove files.

use crate::world::World;

#[test]
fn what_a_shell_writes_is_read_again() {
    let world = World::new();
    let said = world.shell("echo new > new.txt; echo more >> a.txt; cat new.txt a.txt; echo over > b.txt; cat b.txt");
    assert_eq!(said, "new\nfirst\nmore\nover\n");
    assert_eq!(std::fs::read_to_string(world.tree.join("a.txt")).unwrap(), "first\nmore\n");
    assert_eq!(world.shell("cat new.txt"), "new\n", "another program of the same run sees it");
}

#[test]
fn directories_are_made_listed_and_removed() {
    let world = World::new();
    let said = world.shell("mkdir -p out/one/two out/one; touch out/one/two/x; ls out/one/two; rm -r out; ls");
    assert_eq!(said, "x\na.txt\nb.txt\ndata\nempty\nto_a\nto_data\n");
    let said =
        world.shell("rmdir empty; rmdir data 2>/dev/null || echo not empty; rm -r data; ls; cat to_data/c.txt || true");
    assert_eq!(said, "not empty\na.txt\nb.txt\nto_a\nto_data\n");
}

#[test]
fn files_are_copied_moved_and_linked() {
    let world = World::new();
    let said = world.shell(
        "cp -p a.txt copy; cp -r data data2; mv b.txt data/b2; mv data moved; cat copy moved/b2 moved/deep/d.txt data2/c.txt
         ln moved/c.txt hard; echo more >> hard; cat moved/c.txt; ln -s moved soft; cat soft/deep/d.txt
         ls moved; ls data 2>/dev/null || echo gone; cat to_data/c.txt 2>/dev/null || echo gone too",
    );
    assert_eq!(said, "first\nsecond\nfourth\nthird\nthird\nmore\nfourth\nb2\nc.txt\ndeep\ngone\ngone too\n");
}

#[test]
fn a_link_that_was_there_leads_to_what_was_written() {
    let world = World::new();
    assert_eq!(
        world.shell("echo via >> to_data/c.txt; cat data/c.txt; echo via > to_a; cat a.txt; readlink to_a to_data"),
        "third\nvia\nvia\na.txt\ndata\n"
    );
}

#[test]
fn a_stand_in_is_no_link_to_who_asks() {
    let world = World::new();
    let said = world.shell("touch new; stat -c '%F %N' a.txt data to_a; find . -type l | sort; find . -type d | sort");
    assert_eq!(
        said,
        "regular file 'a.txt'\ndirectory 'data'\nsymbolic link 'to_a' -> 'a.txt'\n./to_a\n./to_data\n.\n./data\n./data/deep\n\
         ./data/deep/deeper\n./empty\n"
    );
}

#[test]
fn the_working_directory_has_its_own_name() {
    let world = World::new();
    let said = world.shell("echo x > data/new; cd data; pwd; /bin/pwd; cd ..; mv data moved; cd moved/deep; /bin/pwd; cat ../new; cd ../..; /bin/pwd -P");
    let home = world.home.display();
    assert_eq!(said, format!("{home}/data\n{home}/data\n{home}/moved/deep\nx\n{home}\n"));
}

#[test]
fn modes_and_times_change_inside_only() {
    let world = World::new();
    let said = world.shell("chmod 600 a.txt; chmod 700 data; touch -d @1000 b.txt to_a; stat -c '%a %Y' a.txt b.txt; truncate -s 3 data/c.txt; cat data/c.txt");
    assert_eq!(said, "600 1000\n644 1000\nthi");
}

#[test]
fn what_would_have_failed_fails() {
    let world = World::new();
    let said = world.shell(
        "mkdir data 2>/dev/null || echo exists; rmdir a.txt 2>/dev/null || echo no directory; rm data 2>/dev/null || echo a directory
         mv a.txt data/c.txt/x 2>/dev/null || echo no; echo x 2>/dev/null > none/x || echo nowhere
         set -C; echo x 2>/dev/null > a.txt || echo there",
    );
    assert_eq!(said, "exists\nno directory\na directory\nno\nnowhere\nthere\n");
}

#[test]
fn what_passes_is_written() {
    let world = World::new();
    let passes = world.home.with_file_name("passes");
    world.shell(&format!(
        "echo note > {}/note; echo x > /dev/null; echo x > file; echo y > {}/note2",
        passes.display(),
        passes.display()
    ));
    assert_eq!(std::fs::read_to_string(passes.join("note")).unwrap(), "note\n");
    assert_eq!(std::fs::read_to_string(passes.join("note2")).unwrap(), "y\n");
}
